"""The lab's network: its router, and the rules that cut links."""
