"""Operations on tensors that several parts share: losses over a vocabulary, CUDA graphs, sums over
processes."""
