"""What happened, in the store: receipts and approvals as one signed chain, and where its events are sent."""
