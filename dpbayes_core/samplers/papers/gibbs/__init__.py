"""The samplers of Bernstein and Sheldon (2019): Gibbs steps between the parameters and the latent statistic."""
