/*
 * virsh-trace-answer.h: What is in the answers of the trace agent
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virjson.h"

char *
virshTraceGetText(virJSONValue *object,
                  const char *name);

size_t
virshTraceCount(virJSONValue *object,
                const char *name,
                virJSONValue **array);

unsigned long long
virshTraceNumber(virJSONValue *object,
                 const char *name);

const char *
virshTraceState(virJSONValue *object);

bool
virshTraceHasEnded(virJSONValue *session);

char *
virshTraceSizeText(virJSONValue *object,
                   const char *name);

char *
virshTracePath(virJSONValue *object);

char **
virshTraceFields(virJSONValue *object,
                 const char *const *names,
                 size_t n);
