"""`dpbayes ledger ...`: open the budget, show it, and record changes to it."""
