"""Seals and opens boxes of NaCl with PyNaCl, for each line of the input; prints a line of Base64 for each after the last one.

  open KEY NONCE BOX   prints the text
  seal LENGTH          prints a random key, nonce and text, and their box

An equals sign before each printed word keeps empty words separate.
"""
import base64
import sys

from nacl.bindings import crypto_secretbox, crypto_secretbox_open, randombytes


def say(*words):
    print(*("=" + base64.b64encode(word).decode() for word in words))


for line in sys.stdin.readlines():
    command, *words = line.split()
    if command == "open":
        key, nonce, box = (base64.b64decode(word) for word in words)
        say(crypto_secretbox_open(box, nonce, key))
    else:
        key, nonce, text = randombytes(32), randombytes(24), randombytes(int(words[0]))
        say(key, nonce, text, crypto_secretbox(text, nonce, key))
