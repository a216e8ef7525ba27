/**
 * The data that the kernel and the browser exchange.
 *
 * Each panel has one trait, `state`, that only the kernel writes, and one that never changes.
 * Buttons and requests go to the kernel as custom messages. Table data is not a trait, because
 * traits are saved in notebooks: a view asks for it with `ready` and gets a `table` message, whose
 * buffers hold one column each. Times are seconds since the Unix epoch; money is in micro-dollars.
 */

export type Tone = "idle" | "busy" | "good" | "warn" | "bad" | "off";
export type Shape = "ring" | "half" | "disc" | "cross" | "square" | "alert" | "dash";

/** The words, the mark and the tone of a state. */
export interface Look {
  words: string;
  shape: Shape;
  tone: Tone;
}

/** The state of a `PriceTable`. A view with another `version` asks for the table again. */
export interface PriceState {
  title: string;
  version: number;
  /** Whether the kernel asks clouds for stock while somebody sees the table. */
  asks_stock: boolean;
  /** The lines below the table: which clouds are not set up, and why. */
  notes: string[];
}

/** A row of the run panel. `hourly` is 0 once the attempt is not billed any more. */
export interface AttemptState {
  number: number;
  key: string;
  /** The rank in the plan; -1 where the plan does not hold it. */
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
  /** Whether its cloud made a machine, so that there may be a console to read. */
  has_machine: boolean;
  /** Whether it became the cluster. */
  is_kept: boolean;
  /** The states that it went through, oldest first. */
  phases: { words: string; tone: Tone; since: number }[];
  /** When its present phase is given up; null where it is not. */
  cut_off: number | null;
  /** Within how many seconds of the request most machines of its cloud are ready, where known. */
  usual: number | null;
}

/** The lines about a plan beside its table. */
export interface PlanState {
  headline: string;
  consent: string;
  guards: string;
  dropped: string[];
  notes: string[];
  simulated: boolean;
  /** How many of its first places a person put there. */
  preferred: number;
}

/** The state of a `RunPanel`. */
export interface RunState {
  run_id: string;
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
  /** The cost at `now`, and its growth per hour. */
  cost: number;
  hourly: number;
  started: number;
  /** When the launch was over; its figures do not change after that. */
  ended: number | null;
  now: number;
  /** Until when it waits for stock, and what comes next; empty where it does not wait. */
  waiting: string;
  /** The place that is tried next, with its price; empty where there is none. */
  following: string;
  /** When all places are tried again; null where nothing waits. */
  next_pass: number | null;
  /** How it races, waits, checks and ends. */
  notes: string[];
  /** How many attempts are not among these, and what lists them. */
  earlier: string;
  summary: string[];
  /** What to do next about a run that failed or is ready. */
  hint: string;
  log: string[];
  error: string;
  log_path: string;
  /** The version of the table with the plan's candidates; 0 where there are none. */
  version: number;
  /** What would open more places: what to paste and the button that launches with it, or empty. */
  openings: { words: string; text: string; press: string }[];
  /** The buttons that have a callback. */
  actions: string[];
  /** Whether its cluster runs now. */
  is_running: boolean;
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
  /** How long it ran until the state's `now`; it grows while `hourly` is not 0. */
  uptime: number;
  ended: number | null;
  cost: number;
  hourly: number;
  guards: string;
  /** The guards that run, and what else is said of them; without clocks `guards` says it. */
  clocks: GuardClock[];
  notes: string;
  confirmed: number | null;
  reason: string;
  simulated: boolean;
  can_stop: boolean;
  can_start: boolean;
  can_down: boolean;
  load: Meter[];
}

/** A guard, and when it acts; null where that is not known, or where it does not count now. */
export interface GuardClock {
  words: string;
  due: number | null;
  note: string;
}

/** One figure of a cluster's load; `history` is in percent, oldest first. */
export interface Meter {
  label: string;
  words: string;
  history: number[];
}

/** The state of a `ClustersTable`. */
export interface ClustersState {
  heading: string;
  clusters: ClusterState[];
  now: number;
  actions: string[];
  /** Only in a dashboard. */
  figures?: Figure[];
  budgets?: Budget[];
  sections?: Section[];
  places?: MarketRow[];
  more_places?: string;
  days?: DailyCosts;
  /** When the day began in the kernel's time zone, whose days and months are counted. */
  day_began?: number;
}

/**
 * What each cloud cost on each of the last days, in micro-dollars, and what the cost of the last day
 * grows by an hour; days are ISO dates.
 */
export interface DailyCosts {
  days: string[];
  clouds: { cloud: string; costs: number[]; simulated: boolean; hourly: number }[];
}

/** An amount at `now`, and its growth per hour. */
export interface Figure {
  label: string;
  cost: number;
  hourly: number;
  simulated: boolean;
}

/** What a cluster spent of its budget at `now`, and the growth per hour. */
export interface Budget {
  /** That of its cluster: one that is being replaced has the name of another. */
  key: string;
  name: string;
  spent: number;
  hourly: number;
  limit: number;
  simulated: boolean;
}

/** A heading with lines below it; `warnings` stand out. */
export interface Section {
  title: string;
  lines: string[];
  warnings: string[];
}

/** What a cloud answered of one kind of machine in one place; `levels` are as in a price table. */
export interface MarketRow {
  key: string;
  machine: string;
  place: string;
  levels: string;
  look: Look;
  at: number;
}

/** The state of a `ProvisionForm`. */
export interface FormState {
  gpus: {
    name: string;
    counts: number[];
    /** GiB of one GPU; null where it is not known. */
    memory: number | null;
    /** The least price of one GPU an hour. */
    each: number;
    clouds: number;
    offers: number;
  }[];
  places: { code: string; words: string }[];
}

/** What a person answered in the form; an empty text where nothing. */
export interface FormAnswers {
  name: string;
  gpu: string;
  count: string;
  cpus: string;
  places: string[];
  market: string;
  most: string;
  idle: string;
}

/** The traits of every panel. */
export interface Traits<S> {
  state: S & {
    /** It has fewer rows than the panel, because notebooks keep it; the whole is a message. */
    is_cut?: boolean;
  };
  /** The `data-nbprov` of the static form, a separate output that the live panel hides. */
  anchor: string;
}

/** Messages from the browser. `view` tells the views of one model apart. */
export type ToKernel =
  | { type: "ready"; view: string; version: number }
  | { type: "sync"; view: string }
  | { type: "select"; rank: number }
  /** Try the places of these ranks first; without any, the plan in its own order. */
  | { type: "prefer"; ranks: number[]; version: number }
  /** Make a DataFrame of the rows whose ranks are in the buffer. */
  | { type: "frame" }
  /** A person sees a dashboard, running clusters or a table with stock: news are wanted. */
  | { type: "look" }
  | { type: "launch" | "cancel" | "again" | "wait" | "longer" | "try" }
  /** Launch again with the opening of these words. */
  | { type: "widen"; words: string }
  | { type: "down" | "stop" | "start"; name: string }
  | { type: "ssh"; name: string; view: string }
  /** What the machine of the attempt with this key wrote on its console is wanted. */
  | { type: "console"; key: string; view: string }
  /** The output of a job or cell of a cluster is wanted, or the list of them (empty texts). */
  | { type: "tasks"; name: string; kind: string; id: string; view: string };

/** A value of kind `stock` is a level and the time of its report: `high@1790000000.0`. */
export type Kind = "rank" | "text" | "date" | "stock" | "money" | "number";
export type Dtype = "u1" | "u2" | "u4" | "i4" | "f4" | "f8";

/** A column's header. Its values are in the buffer at the same position, little-endian. */
export interface ColumnHead {
  key: string;
  label: string;
  kind: Kind;
  dtype: Dtype;
  /** For `text`, `date` and `stock`: the words behind the codes in the buffer; empty is unknown. */
  words?: string[];
  /** It is not drawn; rows are filtered and greyed by it. */
  hidden?: boolean;
}

export interface TableHead {
  rows: number;
  /** More than `rows` where the kernel cut the table. Rows of the tail do not count. */
  total: number;
  noun: string;
  /** How many of the last rows are offers of clouds that are not set up, not candidates. */
  tail: number;
  /** The kernel's time when the table was sent. */
  now: number;
  columns: ColumnHead[];
}

/** Messages from the kernel. An empty `view` means all views. */
export type FromKernel<S> =
  | { type: "table"; view: string; version: number; start: number; end: number; table: TableHead }
  /** The rows of a later page, as buffers. */
  | { type: "rows"; view: string; version: number; start: number; end: number }
  /** Other values of one column, for all rows, as a buffer. */
  | { type: "column"; view: string; version: number; column: ColumnHead }
  /** `age` is in seconds since the state was taken. A trait has none; it is read on arrival. */
  | { type: "state"; view: string; state: S; age: number }
  | { type: "notice"; view: string; text: string }
  /** What the machine of an attempt wrote on its console. */
  | { type: "console"; view: string; key: string; text: string }
  /** The latest jobs and cells of a cluster, newest first, or why they cannot be told. */
  | { type: "tasks"; view: string; name: string; tasks: Task[]; problem: string }
  /** The end of what one of them printed. */
  | { type: "output"; view: string; name: string; id: string; text: string }
  /** A text for the clipboard of the view that asked, and what to say then. */
  | { type: "copy"; view: string; text: string; words: string };

/** A job or cell of a cluster, or the log of its launch; its times are the machine's, in seconds since 1970. */
export interface Task {
  kind: "job" | "cell" | "launch";
  id: string;
  /** The first line of a cell of this kernel; else empty. */
  code: string;
  words: string;
  started: number | null;
  ended: number | null;
}

/** What a page tells the kernel: the forms in its notebook. */
export type FromPage =
  | { type: "forms"; forms: Form[] }
  | { type: "cell"; source: string }
  | ({ type: "cell-seen" | "cell-missing" } & EndedCell);

/** A remote cell that has ended, and a text that the HTML of its badge holds. */
export interface EndedCell {
  cell: string;
  mark: string;
}

/** Static forms as they are to be saved, those of earlier kernels among them. */
export type FromKernelToPage =
  | { type: "outputs"; outputs: (FormOutputs & { anchor: string })[] }
  | { type: "cells"; cells: EndedCell[] }
  | ({ type: "cell"; outputs: unknown[] } & EndedCell)
  | { type: "problems"; source: string; problems: CellProblem[] }
  | { type: "listening" };

/** What is wrong at a word of a cell; line and column from 1, and no length where one is missing. */
export interface CellProblem {
  line: number;
  column: number;
  length: number;
  message: string;
}

/** A static form in a notebook, by its anchor, and what it shows. */
export interface Form {
  anchor: string;
  subject: string;
}

/** A static form, and the data of the widget below it where the page may have another one. */
export interface FormOutputs {
  html: string;
  text: string;
  live?: Record<string, unknown>;
}

export type Numbers =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;

export interface TableColumn extends ColumnHead {
  /** Its values came after the table, for all rows. */
  isRenewed?: boolean;
  values: Numbers;
  words: string[];
}

export interface Table {
  rows: number;
  total: number;
  noun: string;
  tail: number;
  now: number;
  /** The columns that are drawn, those derived in the browser included. */
  columns: TableColumn[];
  /** The columns as the kernel sent them. */
  sent: TableColumn[];
  /** The price of a month, which is derived in the browser. */
  monthly: TableColumn | undefined;
  /** How often a column has got other values. */
  renewals: number;
  /** How many rows have arrived. */
  filled: number;
}

export interface Sorting {
  key: string;
  /** 1 is upwards, -1 downwards. */
  direction: -1 | 1;
}

/** Rows that are folded into one line. */
export interface Group {
  name: string;
  count: number;
  /** The least price of a GPU in it, or where it has none, of a machine; NaN if none is known. */
  least: number;
  hasGpu: boolean;
  /** The row with that price. */
  row: number;
  isOpen: boolean;
}

/** What a grid draws. */
export interface Layout {
  /** The rows that match the filter, in their order. */
  matched: Uint32Array;
  /** A row, or for a group -1 less its place in `groups`. */
  entries: Int32Array;
  groups: Group[];
}

/** What stands above a grid and chooses its rows. */
export interface GridTools {
  element: HTMLElement;
  show(table: Table): void;
  layout(table: Table, order: Uint32Array): Layout;
  toggleGroup?(name: string): void;
  onChange(changed: () => void): void;
}

/** Something that rows are chosen by. */
export interface Facet {
  key: string;
  label: string;
  choices: string[];
  /** The place of a row's choice in `choices`; -1 for none. */
  codeOf(row: number): number;
}
