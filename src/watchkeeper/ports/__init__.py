"""What the verbs need of the world, as small protocols that speak only the domain's words. Adapters stand behind them; `compose` joins the two."""
