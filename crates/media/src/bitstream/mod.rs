//! Coded bits: what decoders and containers need to know about them.
