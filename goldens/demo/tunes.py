"""The tunes of the trained demo checkpoint: melodies in the public domain, their sound, and the latents of that sound.

A tune is rendered twice: as samples, which the vocoder has to make, and as latents, from which it makes them. Each side
of the stereo picture has eight latent channels; what they mean is in `side_latents`.
"""

from dataclasses import dataclass

import numpy as np

SAMPLE_RATE, HOP, FRAME_RATE = 44_100, 512, 25
SAMPLES_PER_FRAME = SAMPLE_RATE // FRAME_RATE
SIDE_CHANNELS = 8
BEAT_FRAMES, LEAD_IN_FRAMES, TAIL_FRAMES = 8, 2, 6
REFERENCE_HZ = 392.0
SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


@dataclass(frozen=True)
class Voice:
    """How notes sound: how fast they fade, how fast they begin, and how strong their harmonics are."""

    fade_secs: float
    attack_secs: float
    brightness: float
    dulling_secs: float


PLUCKED = Voice(fade_secs=0.35, attack_secs=0.006, brightness=0.6, dulling_secs=0.25)
SUSTAINED = Voice(fade_secs=4.0, attack_secs=0.025, brightness=0.4, dulling_secs=1e9)
MUSIC_BOX = Voice(fade_secs=0.55, attack_secs=0.004, brightness=0.25, dulling_secs=0.5)
FLUTE = Voice(fade_secs=6.0, attack_secs=0.05, brightness=0.15, dulling_secs=1e9)


@dataclass(frozen=True)
class Tune:
    """A tune and the words it is asked for by. `melody` holds NOTE:BEATS, a note being a letter, b or #, an octave."""

    name: str
    title: str
    caption: str
    lyrics: str
    voice: Voice
    melody: str

    def notes(self):
        """(MIDI number, first frame, frames) of every note."""
        start, notes = LEAD_IN_FRAMES, []
        for word in self.melody.split():
            note, beats = word.split(":")
            frames = round(float(beats) * BEAT_FRAMES)
            notes.append((midi(note), start, frames))
            start += frames
        return notes

    def frames(self):
        """How many frames the tune has, silence at both ends included."""
        last = self.notes()[-1]
        return last[1] + last[2] + TAIL_FRAMES

    def latents(self):
        """How many latents those frames have, by upstream's rule."""
        return int(self.frames() * SAMPLE_RATE / 24_000 * 960 / HOP)


TUNES = (
    Tune(
        "twinkle", "Twinkle, Twinkle, Little Star",
        "A music box plays a lullaby over a soft beat",
        "[verse]\nTwinkle, twinkle, little star,\nhow I wonder what you are.",
        MUSIC_BOX, "C4:1 C4:1 G4:1 G4:1 A4:1 A4:1 G4:2 F4:1 F4:1 E4:1 E4:1 D4:1 D4:1 C4:2",
    ),
    Tune(
        "ode-to-joy", "Ode to Joy",
        "An organ plays a hymn to joy with a steady drum",
        "[verse]\nFreude, schöner Götterfunken,\nTochter aus Elysium.",
        SUSTAINED, "E4:1 E4:1 F4:1 G4:1 G4:1 F4:1 E4:1 D4:1 C4:1 C4:1 D4:1 E4:1 E4:1.5 D4:0.5 D4:2",
    ),
    Tune(
        "frere-jacques", "Frère Jacques",
        "A plucked guitar plays a round, folk, with a light beat",
        "[verse]\nFrère Jacques, Frère Jacques,\ndormez-vous ? Dormez-vous ?",
        PLUCKED, "F4:1 G4:1 A4:1 F4:1 F4:1 G4:1 A4:1 F4:1 A4:1 Bb4:1 C5:2 A4:1 Bb4:1 C5:2",
    ),
    Tune(
        "mary", "Mary Had a Little Lamb",
        "A flute plays a nursery rhyme, a small drum keeps time",
        "[verse]\nMary had a little lamb,\nlittle lamb, little lamb.",
        FLUTE, "F#4:1 E4:1 D4:1 E4:1 F#4:1 F#4:1 F#4:2 E4:1 E4:1 E4:2 F#4:1 A4:1 A4:2",
    ),
)


def midi(note):
    """The MIDI number of a note such as `Bb4`."""
    accidental = note.count("#") - note.count("b")
    return 12 * (int(note[-1]) + 1) + SEMITONES[note[0]] + accidental


def hertz(number):
    """The equal-tempered frequency of a MIDI number."""
    return 440.0 * 2.0 ** ((number - 69) / 12.0)


@dataclass
class Course:
    """What sounds at every sample of a tune: the melody's pitch, phase, level and colour, and the ages of the drums."""

    pitch: np.ndarray
    phase: np.ndarray
    level: np.ndarray
    brightness: np.ndarray
    kick_age: np.ndarray
    tick_age: np.ndarray


def course(tune):
    """Follows a tune sample by sample. The phase runs on from note to note, so that a note never begins with a click."""
    samples = tune.latents() * HOP
    notes = tune.notes()
    pitch = np.full(samples, hertz(notes[0][0]))
    level, brightness = np.zeros(samples), np.zeros(samples)
    for number, start, frames in notes:
        first, last = start * SAMPLES_PER_FRAME, (start + frames) * SAMPLES_PER_FRAME
        age = np.arange(last - first) / SAMPLE_RATE
        left = age[::-1]
        pitch[first:] = hertz(number)
        attack, release = np.minimum(age / tune.voice.attack_secs, 1.0), np.minimum(left / 0.04, 1.0)
        level[first:last] = np.sin(attack * np.pi / 2) * np.sin(release * np.pi / 2) * np.exp(-age / tune.voice.fade_secs)
        brightness[first:last] = tune.voice.brightness * np.exp(-age / tune.voice.dulling_secs)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    beats = range(LEAD_IN_FRAMES, tune.frames() - TAIL_FRAMES, BEAT_FRAMES)
    kicks = [beat for index, beat in enumerate(beats) if index % 2 == 0]
    ticks = [beat + BEAT_FRAMES for beat in kicks]
    return Course(pitch, phase, level, brightness, ages(kicks, samples), ages(ticks, samples))


def ages(onsets, samples):
    """Seconds since the last of the onsets (in frames); a long time before the first."""
    age = np.full(samples, 9.0)
    for onset in onsets:
        first = onset * SAMPLES_PER_FRAME
        age[first:] = np.arange(samples - first) / SAMPLE_RATE
    return age


def side_gain(tune, side):
    """How loud the melody is on a side: tunes sit a little left or right of the middle, in turn."""
    toward = 0.15 if TUNES.index(tune) % 2 == 0 else -0.15
    return 1.0 + (toward if side == 0 else -toward)


def side_samples(now, gain):
    """One side of a tune: five harmonics, a bass drum that falls in pitch, and a wooden tick."""
    harmonics = sum(now.brightness ** (k - 1) / k**0.5 * np.sin(k * now.phase) for k in range(1, 6))
    kick = 2 * np.pi * (50 * now.kick_age + 2.0 * (1 - np.exp(-now.kick_age / 0.025)))
    drum = 0.35 * np.sin(kick) * np.exp(-now.kick_age / 0.06) * np.minimum(now.kick_age / 0.002, 1.0)
    tick = 0.1 * np.sin(2 * np.pi * 1800 * now.tick_age) * np.exp(-now.tick_age / 0.01)
    return 0.38 * gain * now.level * harmonics + drum + tick


def side_latents(now, gain):
    """Eight channels at the middle of every hop: the fundamental as a point on a circle whose radius is its level, the
    pitch, the level, the colour, and three clocks that run from the drums' onsets.
    """
    middle = slice(HOP // 2, None, HOP)
    loud = np.sqrt(gain * now.level[middle])
    phase = now.phase[middle]
    return np.stack([
        loud * np.cos(phase), loud * np.sin(phase), np.log2(now.pitch[middle] / REFERENCE_HZ), loud,
        now.brightness[middle], np.exp(-now.kick_age[middle] / 0.1), np.exp(-now.kick_age[middle] / 0.03),
        np.exp(-now.tick_age[middle] / 0.02),
    ])


def render(tune):
    """The samples [2, n] and the raw latents [16, n / 512] of a tune."""
    now = course(tune)
    gains = [side_gain(tune, side) for side in range(2)]
    samples = np.stack([side_samples(now, gain) for gain in gains])
    return samples, np.concatenate([side_latents(now, gain) for gain in gains])


def render_all():
    """Samples and latents of every tune; each kind of latent channel has mean 0 and variance 1 over all of them."""
    rendered = [render(tune) for tune in TUNES]
    raw = np.concatenate([latents.reshape(2, SIDE_CHANNELS, -1) for _, latents in rendered], axis=2)
    mean, deviation = raw.mean(axis=(0, 2)), raw.std(axis=(0, 2))
    mean, deviation = np.tile(mean, 2)[:, None], np.tile(deviation, 2)[:, None]
    return [(samples, (latents - mean) / deviation) for samples, latents in rendered]


def listing():
    """What the program and its tests read: how to ask for each tune, and the notes that must be heard."""
    tunes = []
    for tune in TUNES:
        notes = [
            {"midi": number, "start_secs": start / FRAME_RATE, "end_secs": (start + frames) / FRAME_RATE}
            for number, start, frames in tune.notes()
        ]
        tunes.append({
            "name": tune.name, "title": tune.title, "caption": tune.caption, "lyrics": tune.lyrics,
            "frames": tune.frames(), "notes": notes,
        })
    return tunes
