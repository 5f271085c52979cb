// The types of client.js: copy both, and client-passkeys.js, into your project.

type Provider = "provider_blocked" | "denied" | "failed" | "again";
/** A code of an answer (docs/reference.md), or one of those that no answer has. */
export type Code = "no_response" | "unavailable" | Provider | "passkey_failed" | (string & {});

export interface User {
  id: string;
  username: string;
  email: string;
  role: "student" | "instructor" | "admin";
}

/** By the names of fields; those of an object in a body are nested. */
export type ByField = { [field: string]: string[] | ByField };

/** A call that failed. */
export class Problem extends Error {
  constructor(code: Code, about?: Partial<Omit<Problem, "code">>);
  readonly code: Code;
  /** 0 without an answer. */
  readonly status: number;
  /** English sentences, and the same in words of docs/reference.md. */
  readonly fields: ByField;
  readonly reasons: ByField;
  /** Seconds; 0 where the answer says nothing. */
  readonly retryAfter: number;
  /** With `email_taken` and `registration_closed`: the address that the provider gave. */
  readonly email: string;
}

/** Whether the cookie outlives the browser's window; other storages ignore it. */
export type Device = { ownDevice?: boolean };
export interface Confirmation {
  password: string;
  secondFactor?: string;
}
/** `email` may be the username. `link`: also link what `arrived` has brought. */
export interface SignIn extends Confirmation, Device {
  email: string;
  link?: boolean;
}
export interface SignUp extends Device {
  username: string;
  email: string;
  password: string;
  firstName: string;
  lastName: string;
  language?: string;
  timezone?: string;
  customFields?: Record<string, string | number | boolean | null>;
}
export interface Passkey {
  id: string;
  credentialId: string;
  name: string;
  createdAt: string;
  lastUsedAt: string | null;
}

/** `ended`: what was typed may stay. `replaced`: by another user, with whom `resume` begins. */
export type Why = "signed_in" | "signed_out" | "ended" | "replaced";

export interface Client {
  /**
   * Return the `data` of the answer; its type is in the OpenAPI document. Throws Problem.
   * A FormData or a Blob is sent as it is; the body of a GET is its query.
   */
  call<T = any>(method: string, path: string, body?: object): Promise<T>;
  /** Return an access token for your own back end; null without a user. Throws Problem. */
  token(): Promise<string | null>;
  /** Null: there is an account, and signing in was refused, as before its address is confirmed. */
  signUp(form: SignUp): Promise<User | null>;
  signIn(login: SignIn): Promise<User>;
  signOut(): Promise<void>;
  /**
   * Return who was signed in on this origin; with "cookie", also where only the cookie is left.
   * Throws Problem where that stays unknown.
   */
  resume(): Promise<User | null>;
  readonly user: User | null;
  readonly ownDevice: boolean;
  /** Return what ends it. */
  onChange(callback: (user: User | null, why: Why) => void): () => void;
  /** Leave for a provider. `returnTo` is by default this page. `denied`: it came back by Back. */
  signInWith(provider: string, options?: Device & { returnTo?: string }): Promise<never>;
  /** Sign in who has come back from a provider; null where nobody has; `again` where too late. */
  arrived(more?: Device & { secondFactor?: string }): Promise<User | null>;
  readonly passkeys: {
    signIn(options?: Device): Promise<User>;
    list(): Promise<Passkey[]>;
    /** After a wrong password, call it again: the passkey that was made is kept. */
    add(body: Confirmation & { name?: string }): Promise<Passkey>;
    remove(id: string, body: Confirmation): Promise<object>;
  };
}

/** `url` is where the service is, as in PUBLIC_URL. */
export function createClient(options: {
  url: string | URL;
  storage?: "cookie" | "local" | "memory";
}): Client;
