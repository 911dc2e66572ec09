"""The numbers of the paper's tables (Hong et al., "Harnessing Mixed Offline Reinforcement Learning Datasets via Trajectory
Weighting", ICLR 2023), to compare with ours."""
