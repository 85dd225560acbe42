//! Hostile `.pth` files: containers and pickles.

use crate::{
    crafted_pth::{Described, Entry, PLAIN, Pickle, pth, zip},
    table::Case,
};

fn named(what: &'static str, bytes: Vec<u8>) -> Case {
    Case::file(what, "dav.pth", bytes)
}

/// A file of this pickle and a storage of six f32 values.
fn pickled(what: &'static str, pickle: Pickle) -> Case {
    named(what, pth(pickle, &[0; 24]))
}

pub(crate) fn cases() -> Vec<Case> {
    [containers(), tensors(), calls(), bombs()].into_iter().flatten().collect()
}

fn containers() -> Vec<Case> {
    let good = pth(Pickle::of(PLAIN), &[0; 24]);
    let entries = |storage: Entry| zip(&[Entry::new("a/data.pkl", Pickle::of(PLAIN).0), storage]);
    let storage = Entry::new("a/data/0", [0; 24]);
    let bomb = Entry { method: 8, size: u32::MAX - 1, ..storage.clone() };
    let overlapping = zip(&[
        Entry::new("a/data.pkl", Pickle::of(PLAIN).0),
        storage.clone(),
        Entry { local_name: "a/data/0".to_owned(), ..Entry::new("a/data/0", []) },
        Entry { offset: Some(0), local_name: "a/data.pkl".to_owned(), ..Entry::new("a/data.pkl", []) },
    ]);
    let mut endless = good.clone();
    let end = endless.len() - 22;
    endless[end + 8..end + 12].fill(0xff);
    let far = Entry { offset: Some(1 << 30), ..storage.clone() };
    let renamed = Entry { local_name: "b/data/0".to_owned(), ..storage.clone() };
    let big = zip(&[Entry::new("a/data.pkl", Pickle::of(PLAIN).0), Entry::new("a/byteorder", "big"), storage.clone()]);
    vec![
        named("an empty .pth", Vec::new()),
        named("a web page as .pth", b"<html>".to_vec()),
        named("a .pth of an old torch", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j".to_vec()),
        named("a .pth cut short", good[..good.len() - 30].to_vec()),
        named("an archive without a pickle", zip(&[storage])),
        named("a zip bomb: a compressed entry of 4 GiB", entries(bomb)),
        named("an archive with an entry twice", overlapping),
        named("a directory of 65 535 entries that are not there", endless),
        named("an entry far past the end", entries(far)),
        named("an entry with two names", entries(renamed)),
        named("tensors of another byte order", big),
    ]
}

fn tensors() -> Vec<Case> {
    let of = |what, described| pickled(what, Pickle::of(described));
    vec![
        of("a transposed tensor", Described { shape: &[3, 2], strides: &[1, 3], ..PLAIN }),
        of("a tensor of stride 0", Described { shape: &[1000, 1000], strides: &[0, 0], ..PLAIN }),
        of("a tensor past the end of its storage", Described { offset: 1, ..PLAIN }),
        of("a tensor before its storage", Described { offset: -1, ..PLAIN }),
        of("a negative dimension in a pickle", Described { shape: &[-2, -3], ..PLAIN }),
        of(
            "a tensor whose product overflows",
            Described { shape: &[i32::MAX, i32::MAX, i32::MAX], strides: &[1, 1, 1], ..PLAIN },
        ),
        of("a storage larger than its entry", Described { values: i32::MAX, ..PLAIN }),
        of("a storage that is not in the archive", Described { key: "../../etc/passwd", ..PLAIN }),
        of("a storage type that is none", Described { storage: "CudaStorage", ..PLAIN }),
        pickled("a name twice in a pickle", {
            Pickle::new().raw(b"}(").text("a").tensor(PLAIN).text("a").tensor(PLAIN).raw(b"u.")
        }),
        pickled("a pickled list", Pickle::new().raw(b"].")),
    ]
}

fn calls() -> Vec<Case> {
    let call = |module, name| Pickle::new().global(module, name).raw(b"(").text("echo harm").raw(b"tR.");
    vec![
        pickled("a pickle that calls os.system", call("os", "system")),
        pickled("a pickle that calls builtins.eval", {
            Pickle::new().text("builtins").text("eval").raw(b"\x93(").text("1").raw(b"tR.")
        }),
        pickled("a pickle that calls torch.load", call("torch.serialization", "load")),
        pickled("a pickle that makes an object", Pickle::new().global("collections", "OrderedDict").raw(b")\x81.")),
        pickled("a pickle that makes an instance", Pickle::new().raw(b"(ios\nsystem\n.")),
        pickled("a pickle of an extension", Pickle::new().raw(b"\x82\x01.")),
        pickled("a call of a tensor", Pickle::new().tensor(PLAIN).raw(b")R.")),
        pickled("a state set on a list", Pickle::new().raw(b"]}b.")),
    ]
}

fn bombs() -> Vec<Case> {
    // Each level holds the one before it a hundred times.
    let level = |pickle: Pickle| {
        (0..100).fold(pickle.raw(b"}("), |pickle, key| pickle.text(&key.to_string()).raw(b"h\x00")).raw(b"uq\x00")
    };
    let laughs = (0..4).fold(Pickle::new().raw(b"}q\x00"), |pickle, _| level(pickle));
    let deep = (0..9).fold(Pickle::new().raw(b"}q\x00"), |pickle, _| pickle.raw(b"}").text("a").raw(b"h\x00sq\x00"));
    vec![
        pickled("a dictionary in itself", Pickle::new().raw(b"}q\x00").text("a").raw(b"h\x00s.")),
        pickled("dictionaries ten deep", deep.raw(b".")),
        pickled("a hundred times a hundred times a hundred dictionaries", laughs.raw(b".")),
        pickled("a million dictionaries on the stack", Pickle::new().raw(&vec![b'}'; 1_000_000]).raw(b".")),
        pickled("a million marks", Pickle::new().raw(&vec![b'('; 1_000_000]).raw(b".")),
        pickled("a text of 4 GiB", Pickle::new().raw(b"X\xff\xff\xff\xff").raw(b".")),
        pickled("a text of 2^64 bytes", Pickle::new().raw(b"\x8d").raw(&[0xff; 8]).raw(b".")),
        pickled("a text that is not UTF-8", Pickle::new().raw(b"U\x02\xff\xfe.")),
        pickled("a pickle of 5 MiB", Pickle::new().raw(&vec![b'N'; 5 << 20]).raw(b".")),
        pickled("a pickle cut short", Pickle(Pickle::of(PLAIN).0[..40].to_vec())),
        pickled("a memory that is empty", Pickle::new().raw(b"}h\x07.")),
        pickled("a key of a million letters", {
            Pickle::new().raw(b"}(").text(&"a".repeat(1_000_000)).tensor(PLAIN).raw(b"u.")
        }),
        pickled("items without a dictionary", Pickle::new().raw(b"(NNu.")),
    ]
}
