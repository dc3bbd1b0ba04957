"""The paper's benchmarks, read from their published layouts."""
