//! Hot paths for concrete Burn backends, recognised at run time.
