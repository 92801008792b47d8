# SPDX-License-Identifier: GPL-2.0-or-later
"""A host whose KVM is another one, for a program that asks /sys and /proc"""

import os
import subprocess

CPUINFO = 'processor\t: 0\nflags\t\t: fpu dts vmx dtes64 bts\n'


def make(folder, **parameters):
    """Make what prefix() shows; the parameters are those of kvm_intel."""
    path = os.path.join(folder, 'module/kvm_intel/parameters')
    os.makedirs(path, exist_ok=True)
    for name, value in parameters.items():
        with open(os.path.join(path, name), 'w', encoding='ascii') as file:
            file.write(f'{value}\n')
    with open(os.path.join(folder, 'cpuinfo'), 'w', encoding='ascii') as file:
        file.write(CPUINFO)


def prefix(test, folder):
    """The command in front of one that is to see that host."""
    make(folder)
    command = [*(['unshare', '-m'] if os.geteuid() == 0 else
                 ['unshare', '-r', '-m']), 'sh', '-c',
               'mount --bind "$0/module" /sys/module && '
               'mount --bind "$0/cpuinfo" /proc/cpuinfo && exec "$@"', folder]
    done = subprocess.run([*command, 'true'], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        test.skipTest(f'/sys cannot be replaced here: {done.stderr.strip()}')
    return command
