"""The checks: one file for each, in the folder of its topic. `model/checks/` lists them."""
