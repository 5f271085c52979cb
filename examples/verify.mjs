// Verifies access tokens of a service with TOKEN_ALGORITHM=ES256: npm install jose
import { createRemoteJWKSet, errors, jwtVerify } from "jose";

const keys = createRemoteJWKSet(new URL("https://accounts.example.org/.well-known/jwks.json"));
const demands = {
  algorithms: ["ES256"],
  issuer: "accounts",
  audience: "accounts:access",
  requiredClaims: ["exp", "sub", "type"],
};

/** Return the claims: `sub` is the user's id, `role` the role. Throws errors.JOSEError. */
export async function verify(token) {
  const { payload, protectedHeader } = await jwtVerify(token, keys, demands);
  const isAccess = payload.type === "access" && protectedHeader.kid;
  if (!isAccess) throw new errors.JWTInvalid("not an access token");
  return payload;
}
