//! What about the lyrics may make another song than the one that is wanted. A hint stops nothing.

/// Below this many words a second, singing leaves more gaps than words. Songs have one to three.
const SPARSE_WORDS_PER_SEC: f64 = 0.3;

/// Shorter songs are excerpts, whatever their lyrics.
const WHOLE_SONG_SECS: f64 = 30.0;

/// A part without words fills time by itself.
const WITHOUT_WORDS: [&str; 6] = ["instrumental", "inst", "solo", "interlude", "intro", "break"];

/// A part that tells the model that the song ends.
const ENDINGS: [&str; 3] = ["outro", "end", "ending"];

/// Returns a line for each thing that is worth a second look, for lyrics of a song of that length.
pub(super) fn hints(lyrics: &str, max_secs: f64) -> Vec<String> {
    let mut hints = Vec::new();
    if max_secs < WHOLE_SONG_SECS {
        return hints;
    }
    let (tags, words) = tags_and_words(lyrics);
    let has = |names: &[&str]| tags.iter().any(|tag| names.iter().any(|name| tag.starts_with(name)));
    if (words as f64) < SPARSE_WORDS_PER_SEC * max_secs && !has(&WITHOUT_WORDS) {
        let fitting = (words as f64).max(5.0);
        hints.push(format!(
            "hint: {words} words are few for {max_secs} s, and the rest may be silence or the same again; --max-seconds \
             {fitting:.0} suits them better, or tags such as [solo] and [instrumental] for what has no words"
        ));
    }
    if !has(&ENDINGS) {
        hints.push(
            "hint: the lyrics have no [outro], so the song may be cut off at its longest instead of ending; add one as the \
             last tag"
                .to_owned(),
        );
    }
    hints
}

/// Returns the tags, in lower case and without their brackets, and the number of words outside of them.
fn tags_and_words(lyrics: &str) -> (Vec<String>, usize) {
    let normalized = music3_text::normalize_lyrics(lyrics);
    let (mut tags, mut words) = (Vec::new(), 0);
    for part in normalized.split_inclusive(']') {
        let (text, tag) = match part.strip_suffix(']').and_then(|part| part.rsplit_once('[')) {
            Some((text, tag)) => (text, Some(tag)),
            None => (part, None),
        };
        words += text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
        tags.extend(tag.map(|tag| tag.trim().to_owned()));
    }
    (tags, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_sung() {
        let (tags, words) = tags_and_words("[Verse 1]\nRain on - the window\n[Outro]\nstay");
        // The first is the model's own, put in front by the normalisation.
        assert_eq!(tags, ["start", "verse 1", "outro"]);
        assert_eq!(words, 5);
    }

    #[test]
    fn speaks_of_few_words_and_of_no_ending() {
        let few = hints("[verse]\nla la la", 60.0);
        assert!(few[0].starts_with("hint: 3 words are few for 60 s"), "{few:?}");
        assert!(few[0].contains("--max-seconds 5 "), "{few:?}");
        assert!(few[1].contains("[outro]"), "{few:?}");
        assert_eq!(few.len(), 2);
    }

    #[test]
    fn says_nothing_where_nothing_is_odd() {
        let verse = "[verse]\n".to_owned() + &"la ".repeat(80);
        assert!(hints(&format!("{verse}\n[outro]\nla"), 60.0).is_empty());
        assert!(hints("[instrumental]\n[outro]", 60.0).is_empty());
        assert!(hints("la", 10.0).is_empty(), "an excerpt");
    }
}
