"""Classification of texts: linear heads over the sentence vectors of datafetch, made from files of examples."""
