"""Train whole populations of agents in one compiled program. JAX and optax."""
