def generate_messages(*a, **k):
    raise NotImplementedError
