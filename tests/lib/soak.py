# SPDX-License-Identifier: GPL-2.0-or-later
"""What ./check soak does more of than ./check."""

import os


def more(few, many):
    """How many of something, or what: in ./check soak, many"""
    return many if 'BACKTRAIL_SOAK' in os.environ else few
