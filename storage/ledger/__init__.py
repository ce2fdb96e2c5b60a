"""The privacy-budget ledger: accounts with their caps, and every charge and release."""
