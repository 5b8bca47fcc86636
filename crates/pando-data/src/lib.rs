//! File contents of Pando.
