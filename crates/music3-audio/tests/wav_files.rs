//! Files on a disk: what is written reads back, and a failure leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};

use music3_audio::{AudioError, SampleFormat, StereoAudio, check_writable, read_wav, write_wav};

const FORMATS: [SampleFormat; 3] = [SampleFormat::Pcm16, SampleFormat::Pcm24, SampleFormat::Float32];

fn song() -> StereoAudio {
    let wave = |step: f32| (0..4410).map(|n| (n as f32 * step).sin()).collect();
    StereoAudio::new([wave(0.05), wave(0.073)], 44_100)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| PathBuf::from(entry.expect("an entry").file_name()))
        .collect();
    names.sort();
    names
}

#[test]
fn every_format_reads_back_within_half_a_step() {
    let folder = folder();
    for (format, step) in FORMATS.into_iter().zip([2.0_f32.powi(-15), 2.0_f32.powi(-23), 0.0]) {
        let path = folder.path().join("song.wav");
        write_wav(&path, &song(), format).expect("written");
        let read = read_wav(&path).expect("read");
        assert_eq!((read.samples(), read.sample_rate_hz()), (4410, 44_100));
        for (read, written) in read.channels().iter().flatten().zip(song().channels().iter().flatten()) {
            // Full scale itself is one step beyond the largest integer.
            let allowed = if *written > 1.0 - step { step } else { step / 2.0 };
            assert!((read - written).abs() <= allowed, "{format:?}: {read} for {written}");
        }
    }
    assert_eq!(names(folder.path()), [Path::new("song.wav")]);
}

#[test]
fn writing_what_was_read_changes_nothing() {
    let folder = folder();
    for format in FORMATS {
        let (first, second) = (folder.path().join("1.wav"), folder.path().join("2.wav"));
        write_wav(&first, &song(), format).expect("written");
        write_wav(&second, &read_wav(&first).expect("read"), format).expect("written");
        assert_eq!(fs::read(&first).expect("read"), fs::read(&second).expect("read"), "{format:?}");
    }
}

#[test]
fn a_song_has_the_plain_header_of_a_16_bit_file() {
    let folder = folder();
    let path = folder.path().join("song.wav");
    write_wav(&path, &song(), SampleFormat::default()).expect("written");
    let bytes = fs::read(&path).expect("read");
    assert_eq!(bytes.len(), 44 + 4 * 4410);
    let header = [
        &b"RIFF"[..],
        &(36 + 4 * 4410_u32).to_le_bytes(),
        b"WAVEfmt \x10\0\0\0\x01\0\x02\0",
        &44_100_u32.to_le_bytes(),
        &(4 * 44_100_u32).to_le_bytes(),
        b"\x04\0\x10\0data",
        &(4 * 4410_u32).to_le_bytes(),
    ];
    assert_eq!(bytes[..44], header.concat());
}

#[test]
fn replaces_a_file_and_leaves_nothing_beside_it() {
    let folder = folder();
    let path = folder.path().join("song.wav");
    fs::write(&path, "an older song").expect("written");
    check_writable(&path).expect("writable");
    assert_eq!(fs::read(&path).expect("read"), b"an older song");
    write_wav(&path, &song(), SampleFormat::Pcm16).expect("written");
    assert_eq!(read_wav(&path).expect("read").samples(), 4410);
    assert_eq!(names(folder.path()), [Path::new("song.wav")]);
}

/// Both the early check and the writing refuse the path, in the same words, and change nothing in `folder`.
fn refused(folder: &Path, path: &Path) -> String {
    let before = names(folder);
    let early = check_writable(path).expect_err("refused early").to_string();
    let late = write_wav(path, &song(), SampleFormat::Pcm16).expect_err("refused").to_string();
    assert_eq!(names(folder), before);
    // A message may hold the random name of the file beside; none of the expected ones does.
    assert_eq!(early, late);
    early
}

#[test]
fn says_what_is_in_the_way() {
    let folder = folder();
    let root = folder.path();
    fs::create_dir(root.join("taken.wav")).expect("made");
    fs::write(root.join("file"), "").expect("made");
    let shown = root.display();
    let table = [
        ("no/song.wav", format!("the folder {shown}/no does not exist")),
        ("file/song.wav", format!("{shown}/file is not a folder")),
        ("taken.wav", "it names a folder, expected the name of a file".to_owned()),
        ("new/", "it names a folder, expected the name of a file".to_owned()),
        ("..", "it names a folder, expected the name of a file".to_owned()),
    ];
    for (name, cause) in table {
        let path = root.join(name);
        assert_eq!(refused(root, &path), format!("{} cannot be written: {cause}", path.display()));
    }
    let path = root.join("x".repeat(300));
    assert!(refused(root, &path).ends_with(" cannot be written: the file system does not allow that name"));
}

#[cfg(unix)]
#[test]
fn does_not_replace_a_socket() {
    let folder = folder();
    let path = folder.path().join("song.wav");
    let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    assert!(refused(folder.path(), &path).ends_with("something of that name is in the way that is not a file"));
}

#[cfg(unix)]
#[test]
fn others_may_read_a_song_as_they_may_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let (song_path, plain_path) = (folder.path().join("song.wav"), folder.path().join("plain"));
    write_wav(&song_path, &song(), SampleFormat::Pcm16).expect("written");
    fs::write(&plain_path, "").expect("written");
    let mode = |path| fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode(&song_path), mode(&plain_path));
}

#[test]
fn refuses_audio_that_is_no_sound() {
    let folder = folder();
    let path = folder.path().join("song.wav");
    let audio = StereoAudio::new([vec![0.0; 3], vec![0.0, 0.0, f32::NAN]], 44_100);
    let error = write_wav(&path, &audio, SampleFormat::Float32).expect_err("refused");
    assert!(error.to_string().ends_with("sample 2 of the right channel is NaN, expected a finite number"), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn refuses_to_read_what_is_no_stereo_file() {
    let folder = folder();
    let path = folder.path().join("song.wav");
    assert!(matches!(read_wav(&path), Err(AudioError::Read { .. })));

    let spec =
        hound::WavSpec { channels: 1, sample_rate: 8000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::create(&path, spec).expect("made");
    writer.write_sample(1_i16).expect("written");
    writer.finalize().expect("finished");
    assert_eq!(
        read_wav(&path).expect_err("mono").to_string(),
        format!("{} has 1 channels, expected 2", path.display())
    );

    // A file that is cut short, or whose header promises four gigabytes, ends in an error and not in memory.
    write_wav(&path, &song(), SampleFormat::Pcm16).expect("written");
    let whole = fs::read(&path).expect("read");
    let mut boasting = whole.clone();
    boasting[40..44].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    for bytes in [&whole[..whole.len() - 2], &whole[..30], &boasting, b""] {
        fs::write(&path, bytes).expect("written");
        assert!(matches!(read_wav(&path), Err(AudioError::Read { .. })));
    }
}
