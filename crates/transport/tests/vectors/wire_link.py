#!/usr/bin/env python3
"""Prints docs/wire-link-vectors.txt, made from docs/wire-link.md alone.

This is a second implementation of the wire format, in another language and with nothing but the standard library: it
shares no code with `transport::link`, neither its ciphers nor its Noise. A test of `transport` compares what it prints
with the page, and another one what the Rust code makes. It is slow, its arithmetic takes a time that depends on secrets,
and it is for test vectors alone.
"""

import hashlib
import hmac

# --- AES (FIPS 197), encryption only -----------------------------------------------------------------------------------


def xtime(byte):
    return (byte << 1 ^ 0x11B if byte & 0x80 else byte << 1) & 0xFF


def field_product(one, two):
    product = 0
    while two:
        product ^= one if two & 1 else 0
        one, two = xtime(one), two >> 1
    return product


def s_box():
    box = []
    for byte in range(256):
        # The inverse is the 254th power, and 0 for 0.
        inverse = 1
        for _ in range(254):
            inverse = field_product(inverse, byte)
        rotated = inverse
        for _ in range(4):
            rotated = (rotated << 1 | rotated >> 7) & 0xFF
            inverse ^= rotated
        box.append(inverse ^ 0x63)
    return box


S_BOX = s_box()


def round_keys(key):
    words = [list(key[at : at + 4]) for at in range(0, len(key), 4)]
    count, constant = len(words), 1
    for index in range(count, 4 * (count + 7)):
        word = list(words[-1])
        if index % count == 0:
            word = [S_BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = xtime(constant)
        elif count > 6 and index % count == 4:
            word = [S_BOX[byte] for byte in word]
        words.append([one ^ two for one, two in zip(word, words[-count])])
    return [sum(words[at : at + 4], []) for at in range(0, len(words), 4)]


def aes(keys, block):
    state = [one ^ two for one, two in zip(block, keys[0])]
    for number, key in enumerate(keys[1:], 1):
        state = [S_BOX[state[(at + 4 * (at % 4)) % 16]] for at in range(16)]
        if number < len(keys) - 1:
            mixed = []
            for at in range(0, 16, 4):
                column = state[at : at + 4]
                for row in range(4):
                    a, b, c, d = column[row:] + column[:row]
                    mixed.append(xtime(a) ^ xtime(b) ^ b ^ c ^ d)
            state = mixed
        state = [one ^ two for one, two in zip(state, key)]
    return bytes(state)


# --- GCM (NIST SP 800-38D) with nonces of 12 bytes ---------------------------------------------------------------------


def ghash(subkey, data):
    subkey, result = int.from_bytes(subkey, "big"), 0
    for at in range(0, len(data), 16):
        result ^= int.from_bytes(data[at : at + 16], "big")
        product, factor = 0, subkey
        for bit in range(127, -1, -1):
            if result >> bit & 1:
                product ^= factor
            factor = factor >> 1 ^ (0xE1 << 120 if factor & 1 else 0)
        result = product
    return result.to_bytes(16, "big")


def padded(data):
    return data + bytes(-len(data) % 16)


def xored(one, two):
    return bytes(a ^ b for a, b in zip(one, two))


def seal(key, nonce, additional, text):
    """The text under AES-GCM, and its tag of 16 bytes."""
    keys = round_keys(key)
    stream = b"".join(
        aes(keys, nonce + (2 + number).to_bytes(4, "big")) for number in range((len(text) + 15) // 16)
    )
    sealed = xored(text, stream)
    lengths = (8 * len(additional)).to_bytes(8, "big") + (8 * len(sealed)).to_bytes(8, "big")
    hashed = ghash(aes(keys, bytes(16)), padded(additional) + padded(sealed) + lengths)
    return sealed + xored(hashed, aes(keys, nonce + b"\0\0\0\1"))


# --- X25519 (RFC 7748) -------------------------------------------------------------------------------------------------

PRIME = 2**255 - 19


def x25519(scalar, point=(9).to_bytes(32, "little")):
    scalar = int.from_bytes(scalar, "little") & ~7 & (1 << 255) - 1 | 1 << 254
    x1 = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in range(254, -1, -1):
        swaps = scalar >> bit & 1
        if swaps:
            x2, x3, z2, z3 = x3, x2, z3, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        x3, z3 = (da + cb) ** 2 % PRIME, x1 * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, (aa - bb) * (aa + 121665 * (aa - bb)) % PRIME
        if swaps:
            x2, x3, z2, z3 = x3, x2, z3, z2
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


# --- Noise (revision 34) -----------------------------------------------------------------------------------------------


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def noise_hkdf(chaining, material, outputs):
    secret, blocks = mac(chaining, material), [b""]
    for number in range(1, outputs + 1):
        blocks.append(mac(secret, blocks[-1] + bytes([number])))
    return blocks[1:]


class Symmetric:
    """What both ends know of a handshake; both write the same bytes, so one of them is enough here."""

    def __init__(self, name, prologue):
        self.hash = name.encode().ljust(32, b"\0")
        self.chaining, self.key, self.counter = self.hash, None, 0
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, material):
        self.chaining, self.key = noise_hkdf(self.chaining, material, 2)
        self.counter = 0

    def mix_key_and_hash(self, material):
        self.chaining, hashed, self.key = noise_hkdf(self.chaining, material, 3)
        self.mix_hash(hashed)
        self.counter = 0

    def encrypt(self, text):
        sealed = seal(self.key, bytes(4) + self.counter.to_bytes(8, "big"), self.hash, text)
        self.counter += 1
        self.mix_hash(sealed)
        return sealed


# --- The link ----------------------------------------------------------------------------------------------------------

NEAR, FAR = bytes(range(1, 9)), bytes(range(0x11, 0x19))
# The ephemeral private keys, which are drawn at random otherwise.
EPHEMERALS = [
    bytes.fromhex("26113157feaf0e57a0043b40213aebc235ac5e8ed2e8d470c3e2510390d9b4ac"),
    bytes.fromhex("07884c255c8588fceb2f477f0b5b687e970c5378bdf3dfad02aa1e3ff95e6fa4"),
]
DEFAULT_MAX_SIZE = 16 << 20


def line(name, data):
    print(f"{name}: {data.hex()}")


def expand(secret, label, context=b"", length=32):
    return mac(secret, label.encode() + context + b"\1")[:length]


def varint(value):
    for code, size in enumerate([1, 2, 4, 8]):
        if value < 1 << (8 * size - 2):
            return (value | code << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(value)


def parameters(instance, connection=None, reset=None):
    found = {1: varint(1452), 2: varint(1 << 20), 3: varint(5000), 4: b"drone"}
    found.update({5: connection, 6: reset} if connection else {})
    found[7] = instance
    return b"".join(varint(number) + varint(len(value)) + value for number, value in found.items())


def gated(key, nonce, body):
    return body + nonce + seal(key, nonce, body, b"")


def packet(secret, odd, number, to, frames):
    header = bytes([0x60 if odd else 0x40]) + to + number.to_bytes(4, "big")
    nonce = xored(expand(secret, "iv", length=12), number.to_bytes(12, "big"))
    return header + seal(expand(secret, "key", length=16), nonce, header, frames)


def frames_of_packets():
    """PING; OPEN, MESSAGE and FRAGMENT; CANCEL and ROW; ACK; OPEN and a stamped MESSAGE."""
    open_3 = bytes([0x08, 3, 1 | 2, 1]) + varint(1) + varint(DEFAULT_MAX_SIZE) + varint(0)
    message = bytes([0x10, 3]) + varint(0) + varint(5) + b"hello"
    fragment = bytes([0x13, 3]) + varint(1) + varint(3000) + varint(1000) + b"part"
    cancel = bytes([0x0A, 3]) + varint(1)
    row = bytes([0x1A, 3]) + varint(2) + bytes([3]) + varint(3) + varint(0) + varint(4) + b"twofour"
    # Packets 2 and 0 came, after a delay of 1 ms, at 250 ms, and take 80 µs each.
    ack = b"\x02" + b"".join(map(varint, [2, 1000, 250_000, 80_000, 1, 0, 0, 0]))
    # Stamped: 2023-11-14T22:13:20.123456Z.
    open_5 = bytes([0x08, 5, 1 | 2 | 16, 1]) + varint(1) + varint(DEFAULT_MAX_SIZE) + varint(0)
    stamped = bytes([0x10, 5]) + varint(0) + varint(13) + (1_700_000_000_123_456).to_bytes(8, "big") + b"hello"
    return b"\x01", open_3 + message + fragment, cancel + row, ack, open_5 + stamped


def handshake(pattern, name, known, noise_1, noise_2, listener_secret):
    """`known` opens the listener's gate; the two functions do the tokens of Noise's messages."""
    for whose, key in zip(["one who connects", "listener"], EPHEMERALS):
        line(f"ephemeral private key of the {whose}", key)
    prologue = bytes([0x81, 1, pattern]) + NEAR
    line("prologue", prologue)
    noise = Symmetric(name, prologue)
    asked = parameters(bytes(range(0x21, 0x29)))
    line("parameters in the Connect", asked)
    first = noise_1(noise) + noise.encrypt(asked)
    line("Noise 1", first)
    gate = expand(known, "glassline link 1 gate", length=16)
    line("gate key", gate)
    used = prologue + b"\0" + len(first).to_bytes(2, "big") + first
    connect = gated(gate, b"\x51" * 12, used.ljust(1200 - 28, b"\0"))
    line("Connect, without the zeros before its gate", used + connect[-28:])

    own = b"\x61" * 32
    line("what the listener alone has", own)
    lasting = expand(listener_secret, "glassline link 1 lasting", own)
    line("lasting secret", lasting)
    token = expand(lasting, "reset", FAR, 16)
    given = parameters(bytes(range(0x31, 0x39)), FAR, token)
    line("parameters in the Accept", given)
    second = noise_2(noise) + noise.encrypt(given)
    line("Accept", b"\x82\x01" + NEAR + second)

    secrets = [
        expand(mac(noise.hash, key), "glassline link 1 data") for key in noise_hkdf(noise.chaining, b"", 2)
    ]
    for whose, secret in zip(["one who connects", "listener"], secrets):
        line(f"secret 0 of the {whose}", secret)
        line(f"key 0 of the {whose}", expand(secret, "key", length=16))
        line(f"iv 0 of the {whose}", expand(secret, "iv", length=12))
    following = expand(secrets[0], "next")
    line("secret 1 of the one who connects", following)
    frames = frames_of_packets()
    for title, secret, odd, number, to, content in [
        ("packet 0 of the one who connects", secrets[0], False, 0, FAR, frames[0]),
        ("packet 1 of the one who connects", secrets[0], False, 1, FAR, frames[1]),
        ("packet 2 of the one who connects, under key 1", following, True, 2, FAR, frames[2]),
        ("packet 3 of the one who connects, under key 1", following, True, 3, FAR, frames[4]),
        ("packet 0 of the listener", secrets[1], False, 0, NEAR, frames[3]),
    ]:
        line(f"frames of {title}", content)
        line(title, packet(secret, odd, number, to, content))
    line("Retry", gated(gate, b"\x52" * 12, b"\x83\x01" + NEAR + b"\x07a token"))
    line("Reset", b"\x84\x01" + FAR + token)


def shared_key():
    key = b"\x11" * 32
    line("shared key", key)
    near, far = (x25519(ephemeral) for ephemeral in EPHEMERALS)

    def first(noise):  # psk, e
        noise.mix_key_and_hash(key)
        noise.mix_hash(near)
        noise.mix_key(near)
        return near

    def second(noise):  # e, ee
        noise.mix_hash(far)
        noise.mix_key(far)
        noise.mix_key(x25519(EPHEMERALS[0], far))
        return far

    handshake(0, "Noise_NNpsk0_25519_AESGCM_SHA256", key, first, second, key)


def key_pairs():
    privates = [b"\x21" * 32, b"\x22" * 32]
    publics = [x25519(private) for private in privates]
    for whose, private, public in zip(["one who connects", "listener"], privates, publics):
        line(f"private key of the {whose}", private)
        line("its public key", public)
    near, far = (x25519(ephemeral) for ephemeral in EPHEMERALS)

    def first(noise):  # the listener's key is known beforehand; e, es, s, ss
        noise.mix_hash(publics[1])
        noise.mix_hash(near)
        noise.mix_key(x25519(EPHEMERALS[0], publics[1]))
        static = noise.encrypt(publics[0])
        noise.mix_key(x25519(privates[0], publics[1]))
        return near + static

    def second(noise):  # e, ee, se
        noise.mix_hash(far)
        noise.mix_key(x25519(EPHEMERALS[0], far))
        noise.mix_key(x25519(privates[0], far))
        return far

    handshake(1, "Noise_IK_25519_AESGCM_SHA256", publics[1], first, second, privates[1])


def check_primitives():
    """Against the examples of the standards, so that a mistake is found here and not in the page."""
    key = bytes(range(16))
    assert aes(round_keys(key), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == (
        "69c4e0d86a7b0430d8cdb78070b4c55a"
    ), "FIPS 197, C.1"
    assert aes(round_keys(bytes(range(32))), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == (
        "8ea2b7ca516745bfeafc49904b496089"
    ), "FIPS 197, C.3"
    assert seal(bytes(16), bytes(12), b"", bytes(16)).hex() == (
        "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"
    ), "GCM, test case 2"
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    assert x25519(alice, x25519(bob)).hex() == (
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    ), "RFC 7748, 6.1"


if __name__ == "__main__":
    check_primitives()
    print("# Test vectors of docs/wire-link.md: all in hexadecimal digits.\n\n## A shared key")
    shared_key()
    print("\n## Key pairs")
    key_pairs()
