"""`dpbayes ledger ...`: the budget, opened, looked at and changed on the record."""
