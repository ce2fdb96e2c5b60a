"""Where confidential rows come from: every source gives batches of Arrow columns of the declared shape."""
