"""spans"""
