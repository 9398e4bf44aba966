"""Statements, span trees and their identifiers."""
