/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU has a copy. */
#include "backtrail/transport.h"
