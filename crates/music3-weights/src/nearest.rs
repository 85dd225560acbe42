//! The name most like another, for messages.

/// The candidate that fewest insertions, deletions and replacements turn into `name`, if they are few.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = name.len() / 3;
    let close = candidates.filter(|candidate| candidate.len().abs_diff(name.len()) <= limit);
    let scored = close.map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate));
    scored.min().filter(|(distance, _)| *distance <= limit).map(|(_, candidate)| candidate)
}

fn distance(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_most_similar_name() {
        let names = ["blocks.0.attn.to_q.weight", "blocks.0.attn.to_out.0.weight", "proj.bias"];
        let find = |name| nearest(name, names.into_iter());
        assert_eq!(find("blocks.0.attn.to_out.weight"), Some("blocks.0.attn.to_out.0.weight"));
        assert_eq!(find("proj.bais"), Some("proj.bias"));
        assert_eq!(find("lm_head.weight"), None);
        assert_eq!(find(""), None);
    }
}
