//! Draws on a device, so that a frame's codes need not be read before the next one begins.

use burn::tensor::{Int, Tensor, backend::Backend};

/// Where a draw stands among a frame's, and what it draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Which of the frame's codes it is.
    pub slot: usize,
    /// Codes of a frame.
    pub slots: usize,
    /// Candidates; candidate 0 is the logits' first column.
    pub candidates: usize,
    /// Columns after the first that no candidate has.
    pub skipped: usize,
    /// Only so many of the best are drawn from, ties with the last included.
    pub top_k: usize,
    /// Whether a candidate must be among as many best of the conditional row too.
    pub filters: bool,
    /// Where the draw's exponential numbers begin.
    pub first_exponential: usize,
    /// The row of an embedding table that belongs to candidate `origin`.
    pub base: usize,
    /// The first candidate that has a row.
    pub origin: usize,
}

/// Draws one candidate from the guided logits `u + 1.5 (c − u)`: candidates as [`Draw`] says, softmax, and the first of
/// the largest quotients of a probability and an exponential number. The result goes **in place** into `outcome`; the
/// winner's row of the table is returned, once for each sequence.
///
/// Offered on the unfused burn-cuda for bf16 logits. A frame's `outcome` is read with [`PendingRead`].
///
/// # Shapes
/// `logits` `[2, columns]`, conditional row first; `exponentials` `[n]`; `outcome` `[4·slots]`: winners, how many logits
/// were not finite, and the winners' rows in the table, each twice, for both rows of the batch; result `[2, 1]`
pub fn try_draw<B: Backend>(
    logits: &Tensor<B, 2>,
    exponentials: &Tensor<B, 1>,
    outcome: &Tensor<B, 1, Int>,
    draw: Draw,
) -> Option<Tensor<B, 2, Int>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::draw(logits, exponentials, outcome, draw);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (logits, exponentials, outcome, draw);
        None
    }
}

/// Integers on their way from a device: the copy is enqueued at once and waited for later.
#[derive(Debug)]
pub struct PendingRead {
    #[cfg(feature = "cuda")]
    inner: crate::cuda::PendingRead,
    #[cfg(not(feature = "cuda"))]
    inner: std::convert::Infallible,
}

impl PendingRead {
    /// Enqueues the copy of a tensor, after everything enqueued so far. `None` where [`try_draw`] is not offered.
    pub fn begin<B: Backend>(tensor: &Tensor<B, 1, Int>) -> Option<Self> {
        #[cfg(feature = "cuda")]
        return crate::cuda::PendingRead::begin(tensor).map(|inner| Self { inner });
        #[cfg(not(feature = "cuda"))]
        {
            let _ = tensor;
            None
        }
    }

    /// Waits for the copy.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn wait(self) -> Result<Vec<i32>, String> {
        #[cfg(feature = "cuda")]
        return self.inner.wait();
        #[cfg(not(feature = "cuda"))]
        match self.inner {}
    }
}
