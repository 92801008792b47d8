# SPDX-License-Identifier: GPL-2.0-or-later
"""What a hostile gdb sends to a server that walks a trace."""

from mutate import EDGES, NAMES

PLACES = ('@0', '@-1', '0:0', '1023:7', '1.5s', '-1s', '1e300s', 'vfs_read',
          'init:do_exit#3', 'last panic', '*0x1010', 'last exit of sh',
          'mark:a', 'switch to init', 'interrupt 32', '@18446744073709551615',
          'panic#' + '9' * 30, 'x' * 3000)
MONITOR = ('where', 'why', 'help', 'prev-switch', 'goto {}', 'next-call {}',
           'prev-call {}', '{}', '{} {}')
FIXED = ('?', 'g', 'qC', 'qAttached', 'qfThreadInfo', 'qsThreadInfo', 'vCont?',
         'Qbtrace:bts', 'Qbtrace:off', 'Qbtrace:pt', 'k0', '!', '',
         'qXfer:libraries:read::0,ffb',
         'QStartNoAckMode', 'qBacktrail.here', 'vMustReplyEmpty', 'qTStatus',
         'qSupported:multiprocess+;swbreak+;xmlRegisters=i386', 'vFile:open:,0',
         'F-1', 'QPassSignals:', 'jThreadsInfo', 'bogus')
MOVES = ('bs', 'bc', 's', 'c', 'S05', 'C05', 'vCont;s', 'vCont;c', 'vCont;s:1',
         'vCont;c:p1.1;s', 'vCont;' + 's:1;' * 500, 'vCont;', 'vCont;x')
OWN = ('back', 'caller', 'from', 'on', 'return', 'stand', 'to', 'view',
       'window', 'stops', 'bogus')
XFERS = ('qXfer:features:read:target.xml:', 'qXfer:btrace:read:all:',
         'qXfer:btrace:read:new:', 'qXfer:btrace:read:delta:',
         'qXfer:btrace-conf:read::', 'qXfer:features:read:x:',
         'qXfer:btrace:read:' + 'x' * 500 + ':')


def hexed(r, found=()):
    """A number as text, or what is none"""
    number = r.choice((r.choice(EDGES), r.choice(found or EDGES),
                       r.randrange(16), r.getrandbits(16)))
    return r.choice(('%x' % number,) * 8 + ('-1', 'p1.1', 'zz', '',
                                            'f' * 40, '0x10'))


def request(r, found=()):
    """One request; found are addresses that mean something"""
    kind = r.randrange(12)

    def number():
        return hexed(r, found)

    if kind == 0:
        return r.choice(FIXED)
    if kind < 3:
        return r.choice(MOVES)
    if kind == 3:
        return r.choice(('Z', 'z')) + f'{r.choice("01234x")},{number()},' + \
            number() + r.choice(('', '', ';X1,00', ';cmds:0'))
    if kind == 4:
        return f'm{number()},{number()}'
    if kind == 5:
        return r.choice(('p', 'P0=', 'G', 'M0,1:', 'X0,1:')) + number()
    if kind == 6:
        return r.choice(('Hg', 'Hc', 'T', 'D;', 'qThreadExtraInfo,',
                         'H', 'Hx')) + number()
    if kind == 7:
        return f'{r.choice(XFERS)}{number()},{number()}'
    if kind in (8, 9):
        line = r.choice(MONITOR)
        while '{}' in line:
            line = line.replace('{}', r.choice(PLACES), 1)
        text = line.encode()
        if r.random() < 0.2:
            text += r.choice(NAMES)
        digits = text.hex()
        return 'qRcmd,' + (digits if r.random() < 0.95 else digits[:-1] + 'g')
    if kind == 10:
        return f'qBacktrail.{r.choice(OWN)}:' + \
            ','.join(number() for _ in range(r.randrange(5)))
    return ''.join(chr(r.randrange(32, 127)) for _ in
                   range(r.choice((1, 5, 300, 20000)))).translate(
                       {ord(c): 'x' for c in '#$}*'})


def raw(r, found=()):
    """Bytes that are no packet, or several, or one that is too long"""
    kind = r.randrange(9)
    one = request(r, found).encode()
    packet = b'$%s#%02x' % (one, sum(one) & 255)
    return (
        b'$' + one, b'$' + one + b'#zz', b'$' + b'x' * (1 << 18) + b'#00',
        packet * r.randrange(2, 300), r.randbytes(r.randrange(1, 3000)),
        b'\x03' * r.randrange(1, 300), b'-' * r.randrange(1, 300),
        b'%' + one + b'#%02x' % (sum(one) & 255), b'$}#7d' + b'}' * 40,
    )[kind]
