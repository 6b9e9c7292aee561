"""Statistics: pure functions of numbers and arrays; no attack, no defense, no model is known here.

One method, one file. Nothing is imported by importing this package.
"""
