"""What the black-box tests share: broker processes, the Java tools, raw frames."""
