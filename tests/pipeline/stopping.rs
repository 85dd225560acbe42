//! A listener that breaks stops the run there: in every stage, and before another unit of work.

use std::{collections::BTreeMap, ops::ControlFlow};

use burn::tensor::backend::Backend;
use music3::{Listener, Music3, Options, Progress, SongError, SongRequest, Stage, Tap};
use music3_testkit::on_each_backend;

on_each_backend!(
    stops_within_one_unit_wherever_it_is_asked_to,
    stops_within_one_unit_in_the_second_window,
    stops_within_one_unit_of_a_rendering,
);

/// Notes what happens, and breaks at one of the events.
struct StopAt {
    event: Option<usize>,
    events: Vec<Progress>,
    taps_after: usize,
}

impl StopAt {
    fn new(event: Option<usize>) -> Self {
        Self { event, events: Vec::new(), taps_after: 0 }
    }

    fn has_broken(&self) -> bool {
        self.event.is_some_and(|event| self.events.len() > event)
    }
}

impl<B: Backend> Listener<B> for StopAt {
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.events.push(progress);
        if self.has_broken() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn tap(&mut self, _tap: Tap<'_, B>) {
        self.taps_after += usize::from(self.has_broken());
    }
}

fn open<B: Backend>(device: &B::Device) -> Music3<B> {
    let folder = music3::demo::unpack(music3::demo::Demo::Random).expect("the demo checkpoint");
    Music3::open(&folder, device.clone(), Options::default()).expect("the demo checkpoint")
}

fn request(max_seconds: f64, steps: usize) -> SongRequest {
    SongRequest { max_seconds, steps, ..SongRequest::new("folk", "[verse]\nla la") }
}

fn stage_of(progress: Progress) -> Stage {
    use music3_weights::Component::{ConditionEncoder, LanguageModel, RvqDepthDecoder, Transformer, Vocoder};
    match progress {
        Progress::Loading { component: LanguageModel | RvqDepthDecoder, .. } => Stage::Autoregressive,
        Progress::Loading { component: ConditionEncoder | Transformer, .. } | Progress::Step { .. } => Stage::Flow,
        Progress::Loading { component: Vocoder, .. } | Progress::Vocoded { .. } => Stage::Vocoder,
        Progress::Prompt { .. } | Progress::Frame { .. } => Stage::Autoregressive,
        other => panic!("an event of no stage: {other:?}"),
    }
}

/// Runs once to see all events, then stops at those that `chosen` keeps. Returns how often each stage was stopped.
fn stop_everywhere<B: Backend>(
    mut run: impl FnMut(&mut dyn Listener<B>) -> Result<(), SongError>,
    chosen: impl Fn(&[Progress], usize) -> bool,
) -> BTreeMap<String, usize> {
    let mut whole = StopAt::new(None);
    run(&mut whole).expect("a whole run");
    let mut stopped = BTreeMap::new();
    for event in (0..whole.events.len()).filter(|&event| chosen(&whole.events, event)) {
        let mut listener = StopAt::new(Some(event));
        let outcome = run(&mut listener);
        let expected = stage_of(whole.events[event]);
        let place = format!("event {event}, {:?}", whole.events[event]);
        assert!(matches!(outcome, Err(SongError::Cancelled { stage }) if stage == expected), "{place}: {outcome:?}");
        assert_eq!(listener.events, whole.events[..=event], "{place}: nothing is reported after the break");
        assert_eq!(listener.taps_after, 0, "{place}: nothing is computed after the break");
        *stopped.entry(expected.to_string()).or_default() += 1;
    }
    stopped
}

/// Keeps every event of computing, and the first, the second and the last of loading each component.
fn most(events: &[Progress], event: usize) -> bool {
    let component = |event: Option<&Progress>| match event {
        Some(Progress::Loading { component, .. }) => Some(*component),
        _ => None,
    };
    let at = |place: Option<usize>| component(place.and_then(|place| events.get(place)));
    match at(Some(event)) {
        None => true,
        loading => {
            [event.checked_sub(1), event.checked_sub(2), Some(event + 1)].into_iter().any(|near| at(near) != loading)
        }
    }
}

fn stops_within_one_unit_wherever_it_is_asked_to<B: Backend>(device: &B::Device) {
    let music = open::<B>(device);
    let request = request(0.2, 3);
    let stopped = stop_everywhere(|listener| music.generate(&request, listener).map(drop), most);
    // Two components loaded, the prompt, five frames; two components, three steps; one component, one window.
    let expected = [(Stage::Autoregressive, 3 + 3 + 1 + 5), (Stage::Flow, 3 + 3 + 3), (Stage::Vocoder, 3 + 1)];
    assert_eq!(stopped, expected.map(|(stage, count)| (stage.to_string(), count)).into());
}

fn stops_within_one_unit_in_the_second_window<B: Backend>(device: &B::Device) {
    let music = open::<B>(device);
    let request = request(8.2, 2);
    let in_the_second = |events: &[Progress], event: usize| {
        matches!(
            events[event],
            Progress::Step { window: 1, .. } | Progress::Vocoded { .. } | Progress::Frame { frames: 201, .. }
        )
    };
    let stopped = stop_everywhere(|listener| music.generate(&request, listener).map(drop), in_the_second);
    let expected = [(Stage::Autoregressive, 1), (Stage::Flow, 2), (Stage::Vocoder, 2)];
    assert_eq!(stopped, expected.map(|(stage, count)| (stage.to_string(), count)).into());
}

fn stops_within_one_unit_of_a_rendering<B: Backend>(device: &B::Device) {
    let music = open::<B>(device);
    let request = request(0.2, 3);
    let mut source = music.sampler(&request);
    let (frames, _) = music.frames(&request, &mut source, &mut ()).expect("frames");
    let run = |listener: &mut dyn Listener<B>| {
        let frames = music3::autoregressive::Frames {
            codes: frames.codes.clone(),
            frame_hiddens: frames.frame_hiddens.clone(),
            finish: frames.finish,
        };
        music.render(frames, request.steps, &mut music.sampler(&request), listener).map(drop)
    };
    let stopped = stop_everywhere(run, most);
    assert_eq!(
        stopped,
        [(Stage::Flow, 9), (Stage::Vocoder, 4)].map(|(stage, count)| (stage.to_string(), count)).into()
    );
}
