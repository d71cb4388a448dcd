"""Speed, measured beside a peer or against the machine's roofs; every measurement also checks the answer."""
