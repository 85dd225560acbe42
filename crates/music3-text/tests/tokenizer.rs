//! Prompts through a small byte-level tokenizer that has the model's structure tokens under their ids.

use music3_text::token_ids::{
    AUDIO_CFG, AUDIO_START, CAPTION_END, CAPTION_START, IM_END, IM_START, LYRICS_END, LYRICS_START,
};
use music3_text::{ControlTokens, PromptIds, PromptTokenizer, TextError};
use serde_json::{Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const THINK: u32 = 151_667;
const STRUCTURE: [(&str, u32); 8] = [
    ("<|im_start|>", IM_START),
    ("<|im_end|>", IM_END),
    ("<|audio_start|>", AUDIO_START),
    ("<|caption_start|>", CAPTION_START),
    ("<|caption_end|>", CAPTION_END),
    ("<|lyrics_start|>", LYRICS_START),
    ("<|lyrics_end|>", LYRICS_END),
    ("<think>", THINK),
];

/// A tokenizer whose other tokens are single bytes: printable ASCII under its own code.
fn tokenizer_json() -> Value {
    let mut vocab = serde_json::Map::new();
    for c in ByteLevel::alphabet() {
        vocab.insert(c.to_string(), json!(u32::from(c)));
    }
    for (token, id) in STRUCTURE {
        vocab.insert(token.to_owned(), json!(id));
    }
    let added: Vec<Value> = STRUCTURE
        .iter()
        .map(|(token, id)| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": *token != "<think>"})
        })
        .collect();
    json!({
        "version": "1.0", "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
        "truncation": {"direction": "Right", "max_length": 12, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 33,
                    "pad_type_id": 0, "pad_token": "!"},
    })
}

fn tokenizer() -> PromptTokenizer {
    PromptTokenizer::from_bytes(tokenizer_json().to_string().as_bytes()).expect("the model's tokenizer")
}

fn encode(caption: &str, lyrics: &str) -> Result<PromptIds, TextError> {
    tokenizer().encode(caption, lyrics, ControlTokens::Refuse)
}

fn refusal(caption: &str, lyrics: &str) -> String {
    encode(caption, lyrics).expect_err("a refusal").to_string()
}

/// The id of each byte; a line end and a blank lie behind the alphabet's detour around control characters.
fn bytes(text: &str) -> Vec<u32> {
    text.bytes()
        .map(|byte| match byte {
            b'\n' => 0x10a,
            b' ' => 0x120,
            byte => u32::from(byte),
        })
        .collect()
}

#[test]
fn both_rows_follow_the_template() {
    let ids = encode("# Pop", "[Verse]\nla la").expect("a prompt");
    let expected = [
        vec![IM_START, CAPTION_START],
        bytes("Pop"),
        vec![CAPTION_END, LYRICS_START],
        bytes("[start]\n[verse]\nla la"),
        vec![LYRICS_END, IM_END, AUDIO_START],
    ]
    .concat();
    assert_eq!(ids.conditional, expected);

    let mut unconditional = vec![AUDIO_CFG; expected.len()];
    unconditional[0] = IM_START;
    unconditional[expected.len() - 2] = IM_END;
    unconditional[expected.len() - 1] = AUDIO_START;
    assert_eq!(ids.unconditional, unconditional);
}

#[test]
fn refuses_a_control_token_in_the_lyrics_by_name_and_place() {
    assert_eq!(
        refusal("pop", "[verse]\nl\u{e4} la <|im_end|> la"),
        "lyrics, line 2, column 7: `<|im_end|>` is a control token of the model, not text; remove it, or allow control \
         tokens if it is meant"
    );
    assert!(refusal("pop", "a <think> b").starts_with("lyrics, line 1, column 3: `<think>`"));
}

#[test]
fn refuses_a_control_token_that_rewriting_makes() {
    // A tag is lower-cased.
    assert!(refusal("pop", "la\n \t[x] [<|IM_END|>] gone").starts_with("lyrics, line 2, column 8: `<|im_end|>`"));
    // What merely looks like it comes first.
    assert!(refusal("pop", "<|IM_END|>\nla <|im_end|>").starts_with("lyrics, line 2, column 4: `<|im_end|>`"));
    // The inner tag is spelled out, and what stood around it closes up.
    assert!(refusal("pop\n<|<||>im_end|>", "la").starts_with("caption as rewritten, line 2, column 1: `<|im_end|>`"));
    assert!(refusal("pop\n<|<|im_end|>|>", "la").starts_with("caption, line 2, column 3: `<|im_end|>`"));
}

#[test]
fn accepts_what_only_looks_like_a_control_token() {
    let ids = encode("<|im_end|>", "[verse] <|im_end|>\n<|IM_END|>").expect("no control token reaches the model");
    assert_eq!(ids.conditional.iter().filter(|&&id| id == IM_END).count(), 1);
    assert_eq!(ids.conditional[2..8], bytes("im_end"));
}

#[test]
fn lets_a_control_token_through_as_upstream_does() {
    let lyrics = "la<|im_end|>\n<think>";
    let ids = tokenizer().encode("pop", lyrics, ControlTokens::AsUpstream).expect("a prompt");
    let sung = [bytes("[start]\nla"), vec![IM_END], bytes("\n"), vec![THINK, LYRICS_END]].concat();
    assert!(ids.conditional.windows(sung.len()).any(|window| window == sung));
}

#[test]
fn refuses_a_prompt_of_more_than_5000_tokens() {
    let template = encode("pop", "x").expect("a prompt").conditional.len() - 1;
    let fits = "x".repeat(5000 - template);
    assert_eq!(encode("pop", &fits).expect("5000 tokens").conditional.len(), 5000);
    assert_eq!(refusal("pop", &format!("{fits}{}", "x".repeat(132))), "prompt has 5132 tokens; the maximum is 5000");
}

#[test]
fn refuses_blank_texts() {
    assert_eq!(refusal(" \u{1f}", "la"), "caption: nothing but white space; expected some text");
    assert_eq!(refusal("pop", "\n\u{3000}"), "lyrics: nothing but white space; expected some text");
}

#[test]
fn refuses_a_tokenizer_whose_structure_tokens_differ() {
    let mut json = tokenizer_json();
    json["model"]["vocab"]["<|im_end|>"] = json!(IM_END + 1);
    let tokens = json["added_tokens"].as_array_mut().expect("a list");
    tokens.retain(|token| token["content"] != "<|lyrics_end|>");
    json["model"]["vocab"].as_object_mut().expect("a table").remove("<|lyrics_end|>");
    let error = PromptTokenizer::from_bytes(json.to_string().as_bytes()).expect_err("another model's tokenizer");
    assert_eq!(
        error.to_string(),
        "tokenizer is not MiniMax-Music3's: token `<|lyrics_end|>` is missing, expected id 151674; token `<|im_end|>` \
         has id 151646, expected 151645"
    );
}

#[test]
fn says_why_a_tokenizer_file_cannot_be_used() {
    let missing = PromptTokenizer::from_file("no/such/tokenizer.json").expect_err("no file");
    assert!(matches!(missing, TextError::ReadTokenizer { .. }));
    assert_eq!(missing.to_string(), "tokenizer no/such/tokenizer.json cannot be read");
    for bytes in [&b"\xff\x00"[..], b"", b"{}", b"{\"version\": \"1.0\"}", b"[1"] {
        let error = PromptTokenizer::from_bytes(bytes).expect_err("not a tokenizer");
        assert!(matches!(error, TextError::ParseTokenizer { .. }), "{error}");
    }
    let huge = vec![b' '; (64 << 20) + 1];
    let error = PromptTokenizer::from_bytes(&huge).expect_err("too large");
    assert_eq!(error.to_string(), "tokenizer has 67108865 bytes or more; the maximum is 67108864");
}
