"""What two folders of benchmarks need: data of known truth, tables, time limits, peers."""
