"""Rows of published tables and the single runs behind them: which runs and formulas give what is printed."""
