"""One exact assignment of more images and captions than a matrix of scores can hold."""
