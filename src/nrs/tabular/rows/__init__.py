"""Where rows come from: memory, or files larger than memory."""
