# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests in assembly: ROMs that stand in for the BIOS.

What they begin with is tests/oracle/guests/guest.h.
"""

import os
import subprocess

SIZE = 1 << 16
HEADERS = os.path.join(os.path.dirname(__file__), '..', 'oracle', 'guests')
# Status of a QEMU whose guest ends with PASS
PASSED = 0x10 << 1 | 1


def assemble(source, folder):
    """Make a ROM of an assembly file in a folder; return its path."""
    obj = os.path.join(folder, 'guest.o')
    rom = os.path.join(folder, 'guest.rom')
    subprocess.run(['gcc', '-c', '-m64', '-I', HEADERS, '-o', obj, source],
                   check=True)
    subprocess.run(['ld', '-m', 'elf_x86_64', '-Ttext=0x10000', '-e', '0',
                    '--oformat', 'binary', '-o', rom, obj], check=True)
    if os.path.getsize(rom) != SIZE:
        raise ValueError(f'{source}: not {SIZE} bytes')
    return rom


def args(rom):
    """Arguments of a QEMU that boots it, and ends when the guest says so."""
    return ['-machine', 'pc', '-m', '32', '-bios', rom, '-device',
            'isa-debug-exit,iobase=0xf4,iosize=4']
