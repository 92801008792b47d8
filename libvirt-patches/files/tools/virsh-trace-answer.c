/*
 * virsh-trace-answer.c: What is in the answers of the trace agent
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-answer.h"
#include "virsh-trace-text.h"

#include "vsh.h"

/* A copy of a member that is a string; "" if it is not there */
char *
virshTraceGetText(virJSONValue *object,
                  const char *name)
{
    return g_strdup(NULLSTR_EMPTY(virJSONValueObjectGetString(object, name)));
}

size_t
virshTraceCount(virJSONValue *object,
                const char *name,
                virJSONValue **array)
{
    *array = virJSONValueObjectGetArray(object, name);

    return *array ? virJSONValueArraySize(*array) : 0;
}

unsigned long long
virshTraceNumber(virJSONValue *object,
                 const char *name)
{
    unsigned long long value = 0;

    ignore_value(virJSONValueObjectGetNumberUlong(object, name, &value));
    return value;
}

const char *
virshTraceState(virJSONValue *object)
{
    const char *state = virJSONValueObjectGetString(object, "state");

    return state ? state : "unknown";
}

/* A session that has ended has the time when it did. */
bool
virshTraceHasEnded(virJSONValue *session)
{
    virJSONValue *ended = virJSONValueObjectGet(session, "ended");

    return ended && virJSONValueGetType(ended) != VIR_JSON_TYPE_NULL;
}

/* A number of bytes, for people */
char *
virshTraceSizeText(virJSONValue *object,
                   const char *name)
{
    const char *unit;
    double value = vshPrettyCapacity(virshTraceNumber(object, name), &unit);

    return g_strdup_printf("%.3f %s", value, unit);
}

/* The path of a trace on the domain's host; only its name if the agent does
 * not report the folder */
char *
virshTracePath(virJSONValue *object)
{
    g_autofree char *folder = virshTraceGetText(object, "folder");
    g_autofree char *file = virshTraceGetText(object, "file");

    if (*folder && *file)
        return g_strdup_printf("%s/%s", folder, file);

    return g_steal_pointer(&file);
}

/* Members that are texts, for a table */
char **
virshTraceFields(virJSONValue *object,
                 const char *const *names,
                 size_t n)
{
    char **fields = g_new0(char *, n + 1);
    size_t i;

    for (i = 0; i < n; i++) {
        const char *text = virJSONValueObjectGetString(object, names[i]);

        fields[i] = virshTraceQuote(text && *text ? text : "-");
    }

    return fields;
}
