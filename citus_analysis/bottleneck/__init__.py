"""bottleneck"""
