//! Case files, captures and comparison: what music3 check and the tests share.
