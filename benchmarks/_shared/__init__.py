"""What two folders of benchmarks need: data of known truth, real models, tables, limits, peers."""
