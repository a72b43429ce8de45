"""How steps that work along axes become native."""
