/**
 * What the kernel and the browser say to each other.
 *
 * Each panel has one trait, `state`, that the kernel alone writes, and one that never changes; buttons and requests go the other way as custom messages.
 * Table data never is a trait (traits end up in saved notebooks): a view asks for it with `ready` and gets a `table` message
 * whose buffers hold one column each. Instants are seconds since the Unix epoch, money is in micro-dollars.
 */

export type Tone = "idle" | "busy" | "good" | "warn" | "bad" | "off";
export type Shape = "ring" | "half" | "disc" | "cross" | "square" | "alert" | "dash";

/** How a state is said and drawn. */
export interface Look {
  words: string;
  shape: Shape;
  tone: Tone;
}

/** The state of a `PriceTable`. A view whose `version` is not this one asks for the table again. */
export interface PriceState {
  title: string;
  version: number;
  /** What is said under the table: which clouds are not set up, and why. */
  notes: string[];
}

/** A row of the failover panel. `hourly` is 0 once nothing of the attempt is on the bill. */
export interface AttemptState {
  number: number;
  key: string;
  /** Place in the plan; -1 where it is not of the plan. */
  rank: number;
  gpus: string;
  place: string;
  instance_type: string;
  market: string;
  price: string;
  state: string;
  look: Look;
  started: number;
  ended: number | null;
  cost: number;
  hourly: number;
  reason: string;
  advice: string;
  raw: string;
  code: string;
}

/** What is said of a plan beside its table. */
export interface PlanState {
  headline: string;
  consent: string;
  guards: string;
  dropped: string[];
  notes: string[];
  simulated: boolean;
}

/** The state of a `RunPanel`. */
export interface RunState {
  name: string;
  /** planned, launching, waiting, ready, cancelling, cancelled, failed or ended. */
  state: string;
  look: Look;
  message: string;
  is_final: boolean;
  needs_launch: boolean;
  simulated: boolean;
  plan: PlanState;
  attempts: AttemptState[];
  blocks: string[];
  /** Cost at `now`, and what it grows by an hour. */
  cost: number;
  hourly: number;
  started: number;
  now: number;
  /** Until when stock is waited for, and what comes next; empty where it is not. */
  waiting: string;
  /** How it races, waits, checks and ends. */
  notes: string[];
  summary: string[];
  log: string[];
  error: string;
  log_path: string;
  /** Which table the plan's candidates are in; 0 where there are none. */
  version: number;
  /** Which buttons have somebody listening. */
  actions: string[];
}

/** A row of the clusters table. */
export interface ClusterState {
  key: string;
  name: string;
  state: string;
  look: Look;
  gpus: string;
  place: string;
  instance_type: string;
  market: string;
  nodes: number;
  started: number;
  ended: number | null;
  cost: number;
  hourly: number;
  guards: string;
  confirmed: number | null;
  reason: string;
  simulated: boolean;
  can_stop: boolean;
  can_start: boolean;
  can_down: boolean;
}

/** The state of a `ClustersTable`. */
export interface ClustersState {
  heading: string;
  clusters: ClusterState[];
  now: number;
  actions: string[];
  /** Of a dashboard alone. */
  figures?: Figure[];
  sections?: Section[];
}

/** An amount at `now`, and what it grows by an hour. */
export interface Figure {
  label: string;
  cost: number;
  hourly: number;
  simulated: boolean;
}

/** A heading and lines below it. */
export interface Section {
  title: string;
  lines: string[];
}

/** The traits of every panel. */
export interface Traits<S> {
  state: S;
  /** What the static form of the panel bears as `data-nbprov`: an output of its own, to be hidden while the panel is alive. */
  anchor: string;
}

/** From the browser. `view` tells the views of one model apart. */
export type ToKernel =
  | { type: "ready"; view: string; version: number }
  | { type: "sync"; view: string }
  | { type: "select"; rank: number }
  | { type: "launch" | "cancel" }
  | { type: "down" | "stop" | "start"; name: string };

/** `stock`: a level and the instant it was told at, `high@1790000000.0`. */
export type Kind = "rank" | "text" | "date" | "stock" | "money" | "number";
export type Dtype = "u2" | "u4" | "i4" | "f4" | "f8";

/** A column's header; its values are in the buffer of the same position, little-endian. */
export interface ColumnHead {
  key: string;
  label: string;
  kind: Kind;
  dtype: Dtype;
  /** For `text`, `date` and `stock`: what the codes in the buffer stand for; empty is unknown. */
  words?: string[];
}

export interface TableHead {
  rows: number;
  /** More than `rows` where the kernel cut the table. Rows of the tail are not counted. */
  total: number;
  noun: string;
  /** So many rows, the last ones, are no candidates: what clouds that are not set up would offer. */
  tail: number;
  /** The kernel's clock when the table was sent. */
  now: number;
  columns: ColumnHead[];
}

/** From the kernel. `view` is empty where all views are meant. */
export type FromKernel<S> =
  | { type: "table"; view: string; version: number; table: TableHead }
  /** `age`: seconds since the state was taken. A trait has none: it is read when it arrives. */
  | { type: "state"; view: string; state: S; age: number }
  | { type: "notice"; view: string; text: string };

export type Numbers = Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

export interface TableColumn extends ColumnHead {
  values: Numbers;
  words: string[];
}

export interface Table {
  rows: number;
  total: number;
  noun: string;
  tail: number;
  now: number;
  /** Those that are drawn. */
  columns: TableColumn[];
  /** Why each row is grey; empty where it is not. */
  off: TableColumn | undefined;
}

export interface Filter {
  /** Words that must all be contained in a row's text cells. */
  text: string;
  /** Dearest price an hour of a node, in dollars; null means any. */
  most: number | null;
  /** A market, or empty for both. */
  market: string;
}

export interface Sorting {
  key: string;
  /** 1 upwards, -1 downwards, 0 the order of the plan. */
  direction: -1 | 0 | 1;
}
