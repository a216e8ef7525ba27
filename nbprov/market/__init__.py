"""What is in stock now and how likely an attempt is to be accepted: stock probes, observations, and the estimate made of them.

Nothing of it is needed to order candidates by price, so the package is empty until clouds with a stock probe need it.
"""
