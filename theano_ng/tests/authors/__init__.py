"""Ops of independent authors, who know only the manual, and faults that such authors could make in them."""
